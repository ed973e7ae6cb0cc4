-- All that a relay may do, by its login: to beat, to claim, to read what it has claimed, to report. A relay has no right to
-- any table; these functions have those of whoever migrated the store, and look at who calls them. Every text that a relay
-- gives is data of a stranger. The search path is pinned, with that of temporary tables last.

CREATE OR REPLACE FUNCTION relay_protocol() RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS 'SELECT 5::bigint';

-- Which database this is, also after a fail-over or a restore: every process compares it whenever it connects.
CREATE OR REPLACE FUNCTION store_identity() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$ SELECT value FROM meta WHERE name = 'identity' $$;

GRANT EXECUTE ON FUNCTION store_identity() TO PUBLIC;

INSERT INTO meta (name, value) VALUES ('identity', (random() * 9e18)::bigint) ON CONFLICT (name) DO NOTHING;

CREATE OR REPLACE FUNCTION relay_now() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS 'SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)';

-- Who calls: a login cannot take the name of a relay of another one.
CREATE OR REPLACE FUNCTION relay_caller(relay text) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN relay ~ '^[^[:cntrl:]/]{1,100}$' THEN session_user || '/' || relay END
$$;

-- A login as its rights are kept: by name and number. Another one may get its name once it is dropped, and its number on another
-- server.
CREATE OR REPLACE FUNCTION relay_login(name text) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT l.rolname || '/' || l.oid FROM pg_roles AS l WHERE l.rolname = name
$$;

-- Whether the login may take the commands of a role; '' stands for commands without one. Who may write the plans may everything.
CREATE OR REPLACE FUNCTION relay_may(wanted text) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT has_table_privilege(session_user, 'plans', 'UPDATE')
        OR EXISTS (SELECT FROM relay_rights AS r WHERE r.login = relay_login(session_user) AND r.role = wanted)
$$;

-- Whether a relay of the login has a command under this claim.
CREATE OR REPLACE FUNCTION relay_holds(relay text, command text, number bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT FROM relayed AS r
        WHERE r.id = command AND r.claim = number AND r.relay = relay_caller($1) AND r.reported = 0)
$$;

-- Says that a relay lives, and what it works on: [{"id", "claim", "life"}], with an empty life where it still lays the work out.
-- Returns the commands that it goes on with.
CREATE OR REPLACE FUNCTION relay_beat(relay text, about text, held text) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    caller text := relay_caller($1);
    refused text;
BEGIN
    IF caller IS NULL OR length(about) > 10000 OR length(held) > 20000000 THEN
        RAISE EXCEPTION 'what a relay says of itself cannot be read';
    END IF;
    IF NOT EXISTS (SELECT FROM relay_rights AS r WHERE r.login = relay_login(session_user)) AND NOT relay_may('') THEN
        RAISE EXCEPTION 'the login "%" may take no commands: where the daemon is, `plan-agent store allow %` lets it',
            session_user, session_user;
    END IF;
    -- What a relay works on it may end, whatever else was taken from its login.
    SELECT w.role INTO refused FROM jsonb_array_elements_text(about::jsonb -> 'roles') AS w(role)
        WHERE held = '[]' AND NOT relay_may(w.role) LIMIT 1;
    IF refused = '' THEN
        RAISE EXCEPTION 'the login "%" may take no commands without a role: where the daemon is, `plan-agent store allow %` lets it',
            session_user, session_user;
    ELSIF refused IS NOT NULL THEN
        RAISE EXCEPTION 'the login "%" may take no commands of the role "%": where the daemon is, `plan-agent store allow % --role %` lets it',
            session_user, refused, session_user, refused;
    END IF;
    IF about::jsonb -> 'ended' = 'true' THEN
        DELETE FROM relays AS r WHERE r.name = caller;
        RETURN;
    END IF;
    INSERT INTO relays AS r (name, about, seen) VALUES (caller, $2, relay_now())
        ON CONFLICT (name) DO UPDATE SET about = excluded.about, seen = excluded.seen;
    -- One of another machine that is gone for good.
    DELETE FROM relays AS r WHERE r.seen < relay_now() - 604800000000;
    DELETE FROM relayed AS r WHERE r.ends = 1 AND r.offered < relay_now() - 604800000000;
    RETURN QUERY
        UPDATE relayed AS r SET held_until = relay_now() + 60000000, life = h.life,
            refused = CASE WHEN h.life = '' THEN r.refused ELSE '' END
        FROM jsonb_to_recordset(held::jsonb) AS h(id text, claim bigint, life text)
        WHERE r.id = h.id AND r.claim = h.claim AND r.relay = caller AND r.reported = 0
        RETURNING r.id;
END $$;

-- Takes the oldest command that waits, of some roles and projects, and of no plan that is passed over; all four are lists in
-- JSON. Only of plans that a daemon carries out now: else no daemon could take the command back. A command that goes on in a
-- session waits a minute for the relay that knows the session; one that ends it is for no other.
CREATE OR REPLACE FUNCTION relay_claim(relay text, roles text, projects text, sessions text, passed text)
RETURNS TABLE (id text, claim bigint, plan text, project text, body text, base text, head text, merge text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    caller text := relay_caller($1);
BEGIN
    IF caller IS NULL THEN
        RAISE EXCEPTION 'this is no name of a relay';
    END IF;
    RETURN QUERY
        UPDATE relayed AS r SET claim = r.claim + 1, relay = caller, held_until = relay_now() + 60000000, life = ''
        WHERE r.id = (
            SELECT o.id FROM relayed AS o
            WHERE o.reported = 0 AND o.held_until < relay_now()
                AND o.role IN (SELECT jsonb_array_elements_text($2::jsonb)) AND relay_may(o.role)
                AND o.project IN (SELECT jsonb_array_elements_text($3::jsonb))
                AND o.plan NOT IN (SELECT jsonb_array_elements_text($5::jsonb))
                AND (o.ends = 1 OR EXISTS (SELECT FROM plans AS p WHERE p.id = o.plan AND p.held_until > relay_now()))
                AND (o.session = '' OR o.ends = 0 AND o.offered < relay_now() - 60000000
                    OR o.session IN (SELECT jsonb_array_elements_text($4::jsonb)))
            ORDER BY o.offered, o.id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING r.id, r.claim, r.plan, r.project, r.body, r.base, r.head, r.merge;
    IF FOUND THEN
        PERFORM pg_notify('plan_agent', caller);
    END IF;
END $$;

-- Gives a command back that the relay does not work on, and says why, if it cannot. A beat that comes late, over an earlier
-- connection, holds it no more.
DROP FUNCTION IF EXISTS relay_release(text, text, bigint);
CREATE OR REPLACE FUNCTION relay_release(relay text, command text, number bigint, why text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE relayed AS r SET held_until = 0, relay = '', life = '', refused = left(why, 2000)
    WHERE r.id = command AND r.claim = number AND r.relay = relay_caller($1) AND r.reported = 0 RETURNING r.claim
$$;

-- Lists the packs that are kept of the plan of a command, in the order in which they build on each other.
CREATE OR REPLACE FUNCTION relay_packs(relay text, command text, number bigint) RETURNS TABLE (place bigint, commit_id text)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT DISTINCT w.place, w.commit_id FROM work AS w JOIN relayed AS r ON r.plan = w.plan
    WHERE r.id = command AND relay_holds($1, command, number) ORDER BY 1
$$;

-- Returns a part of one of these packs, if it has that many; 0 is the pack with the work of the task so far.
CREATE OR REPLACE FUNCTION relay_pack(relay text, command text, number bigint, wanted bigint, nth bigint) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT body FROM (
        SELECT w.part, w.body FROM work AS w JOIN relayed AS r ON r.plan = w.plan WHERE r.id = command AND w.place = wanted
        UNION ALL
        SELECT p.part, p.body FROM relayed_parts AS p WHERE p.command = $2 AND p.claim = 0 AND wanted = 0
    ) AS parts WHERE part = nth AND relay_holds($1, command, number)
$$;

-- Keeps a part of the pack with the work of a command. What an earlier try left is replaced.
CREATE OR REPLACE FUNCTION relay_put(relay text, command text, number bigint, place bigint, content text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF number < 1 OR place NOT BETWEEN 0 AND 63 OR length(content) > 1500000 THEN
        RAISE EXCEPTION 'a result has at most 64 parts of 1 MiB';
    END IF;
    IF NOT relay_holds($1, command, number) THEN
        RETURN 0;
    END IF;
    INSERT INTO relayed_parts AS p (command, claim, part, body) VALUES (command, number, place, content)
        ON CONFLICT ON CONSTRAINT relayed_parts_pkey DO UPDATE SET body = excluded.body;
    DELETE FROM relayed_parts AS p WHERE p.command = $2 AND p.claim = number AND p.part > place;
    RETURN 1;
END $$;

-- Reports on a command. Returns 1 if this is what counts now, also when it is said again; 0 if another relay has the command,
-- or nobody wants it any more. One that ends a session is removed with that.
CREATE OR REPLACE FUNCTION relay_report(relay text, command text, number bigint, content text, commit_id text, refused text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF length(content) > 2000000 OR length(commit_id) > 100 OR length(refused) > 10000 THEN
        RAISE EXCEPTION 'a report has at most 1 MiB';
    END IF;
    UPDATE relayed AS r SET reported = 1, report = content, result = commit_id, refused = $6
        WHERE r.id = command AND r.claim = number AND r.relay = relay_caller($1) AND r.reported = 0;
    IF FOUND THEN
        PERFORM pg_notify('plan_agent', command);
        DELETE FROM relayed AS r WHERE r.id = command AND r.ends = 1;
        RETURN 1;
    END IF;
    RETURN (SELECT count(*) FROM relayed AS r WHERE r.id = command AND r.claim = number AND r.relay = relay_caller($1)
        AND r.reported = 1 AND r.report = content);
END $$;

-- Gives the group of relays what a relay may call.
CREATE OR REPLACE FUNCTION relay_grant() RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    GRANT EXECUTE ON FUNCTION relay_protocol(), relay_beat(text, text, text), relay_claim(text, text, text, text, text),
        relay_release(text, text, bigint, text), relay_packs(text, text, bigint), relay_pack(text, text, bigint, bigint, bigint),
        relay_put(text, text, bigint, bigint, text), relay_report(text, text, bigint, text, text, text) TO plan_relays;
$$;

-- Lets a login take the commands of a role. Its rights end with it: DROP ROLE.
CREATE OR REPLACE FUNCTION relay_allow(login text, wanted text) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login) THEN
        RAISE EXCEPTION 'the server has no login "%"', login;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'plan_relays') THEN
        CREATE ROLE plan_relays NOLOGIN;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO plan_relays', current_schema());
    PERFORM relay_grant();
    EXECUTE format('GRANT plan_relays TO %I', login);
    INSERT INTO relay_rights VALUES (relay_login($1), $2) ON CONFLICT DO NOTHING;
    RETURN 1;
END $$;

REVOKE ALL ON FUNCTION relay_allow(text, text), relay_grant(), relay_protocol(), relay_now(), relay_caller(text), relay_login(text),
    relay_may(text), relay_holds(text, text, bigint), relay_beat(text, text, text), relay_claim(text, text, text, text, text),
    relay_release(text, text, bigint, text),
    relay_packs(text, text, bigint), relay_pack(text, text, bigint, bigint, bigint), relay_put(text, text, bigint, bigint, text),
    relay_report(text, text, bigint, text, text, text) FROM PUBLIC;

-- Rights were kept by the names of logins.
INSERT INTO relay_rights SELECT relay_login(r.login), r.role FROM relay_rights AS r WHERE relay_login(r.login) IS NOT NULL
    ON CONFLICT DO NOTHING;
DELETE FROM relay_rights AS r WHERE r.login !~ '/[0-9]+$';

-- Functions that are new since logins were let in here. A restored database may be on a server without the group.
DO $$ BEGIN
    IF EXISTS (SELECT FROM relay_rights) AND EXISTS (SELECT FROM pg_roles WHERE rolname = 'plan_relays') THEN
        PERFORM relay_grant();
    END IF;
END $$;
